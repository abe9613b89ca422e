"""`Index` and what a publication meets there: slots and their records, batches of publications, and the test of each candidate."""
