package control

// Published is a port of the machine's loopback that leads to one inside.
type Published struct {
	Host   uint16 `json:"host"`
	Port   uint16 `json:"port"`
	Silent bool   `json:"silent,omitempty"` // a connection came, and nothing listened inside
}
