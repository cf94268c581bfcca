"""What may enter: every refusal has a reason code, whose fault it is, and what to do."""
