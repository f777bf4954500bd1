package terminal

// Class is a kind of sequence that the filter drops; see the package's table.
type Class uint8

// The classes of dropped sequences.
const (
	Clipboard Class = iota
	Title
	AnswerBack
	Transfer
	Link
	Notification
	Window
	Print
	String
	C1
	Mode
	Other
	classes // the number of them
)

// String returns the class's name as the table has it.
func (c Class) String() string {
	switch c {
	case Clipboard:
		return "clipboard"
	case Title:
		return "title"
	case AnswerBack:
		return "answerback"
	case Transfer:
		return "transfer"
	case Link:
		return "link"
	case Notification:
		return "notification"
	case Window:
		return "window"
	case Print:
		return "print"
	case String:
		return "string"
	case C1:
		return "c1"
	case Mode:
		return "mode"
	case Other, classes:
		return "other"
	}
	return "other"
}

// Counts says how many sequences of each class were dropped.
type Counts [classes]uint64

// Of returns the count of one class.
func (c *Counts) Of(class Class) uint64 {
	if class >= classes {
		return 0
	}
	return c[class]
}

// Total returns how many sequences were dropped.
func (c *Counts) Total() uint64 {
	var sum uint64
	for _, n := range c {
		sum += n
	}
	return sum
}

// Add adds the counts of another filter.
func (c *Counts) Add(other Counts) {
	for class, n := range other {
		c[class] += n
	}
}

// Named returns the counts that are not zero, by the name of their class.
func (c *Counts) Named() map[string]uint64 {
	named := make(map[string]uint64)
	for class, n := range c {
		if n > 0 {
			named[Class(class).String()] = n
		}
	}
	return named
}
