package launcher

// playControl is in its own test file.
func playControl() int { return 0 }
