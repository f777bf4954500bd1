package budget

// Limits are the limits of a call. All of them hold.
type Limits struct {
	Run       Limit `json:"run,omitzero"`        // of this run, whatever it uses
	ModelTask Limit `json:"model_task,omitzero"` // of the task, for this model
	ModelDay  Limit `json:"model_day,omitzero"`  // of the user, for this model in a day
	Task      Limit `json:"task,omitzero"`       // of the task, over all models
	Day       Limit `json:"day,omitzero"`        // of the user, over all models in a day
}
