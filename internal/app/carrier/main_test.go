package carrier_test

import (
	"os"
	"testing"

	"github.com/bailey-dev/bailey/internal/app/carrier"
	"github.com/bailey-dev/bailey/internal/role"
)

// TestMain is the role too.
func TestMain(m *testing.M) {
	if os.Args[0] == role.Git {
		os.Exit(carrier.Main(os.Args[1:]))
	}
	os.Exit(m.Run())
}
