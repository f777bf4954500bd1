package spell

import "strconv"

// Count is a number of things for a person, such as "1 file" or "2 files": the
// noun is one whose plural takes an s.
func Count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}
