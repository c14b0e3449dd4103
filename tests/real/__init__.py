"""Five checks of real services with whatever keys are set: `make test-real`."""
