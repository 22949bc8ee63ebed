"""Capture and cleanup as jobs: their parameters, schedule, history, and the agent that runs them."""
