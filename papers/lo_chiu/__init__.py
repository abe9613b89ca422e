"""Lo and Chiu's rendezvous schemes: their experiments in simulation, their cost model, and what they claim."""
