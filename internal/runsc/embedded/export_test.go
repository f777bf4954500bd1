package embedded

// For the tests of what a start is spared.
const (
	StartTime = startTime
	StartHeap = startHeap
)

// CollectLater is collectLater.
func CollectLater() { collectLater() }

// WithoutTracePoints is withoutTracePoints.
func WithoutTracePoints() { withoutTracePoints() }
