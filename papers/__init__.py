"""The papers: their algorithms and baselines, their loads and their figures, beside the product and against it.

No worker runs any of it unless it is told to (`ALGORITHM`). What an index or a store can use is registered by name.
"""
