"""From wake-ups to Changes: what happens to devices, as it happens."""
