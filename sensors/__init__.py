"""When it is made: epochs, unfinished epochs, weights to send, run failures."""
