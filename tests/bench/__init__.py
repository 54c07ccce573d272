"""What speed and memory are, in figures: printed, never judged. `make bench`."""
