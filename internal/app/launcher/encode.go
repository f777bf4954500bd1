package launcher

import (
	"encoding/json"
	"fmt"
)

func encode(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode settings: %w", err)
	}
	return text, nil
}
