package inject

// Unlent says of a refusal what the record has of it: the reason, and the name
// of the secret.
func (r *Refusal) Unlent() (reason, secret string) { return r.Reason, r.Secret }
