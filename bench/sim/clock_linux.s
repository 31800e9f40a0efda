// Without a file of assembly a function without a body, clock_linux.go has one, is refused.
