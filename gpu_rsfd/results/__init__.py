"""What a measurement gives: arrays, and the estimates and errors that follow from them."""
