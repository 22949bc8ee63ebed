"""What the hub does with an upload: it decides conflicts, writes the outcome, and settles refused rows."""
