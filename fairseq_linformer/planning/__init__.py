"""Memory, time and cost of a pretraining run, before it is started."""
