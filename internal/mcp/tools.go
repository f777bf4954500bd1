package mcp

import (
	"context"
	"crypto/rand"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bailey-dev/bailey/internal/task"
)

// The names of the tools.
const (
	toolDelegate = "delegate_task"
	toolChecks   = "run_checks"
	toolStatus   = "task_status"
	toolResult   = "task_result"
	toolCancel   = "cancel_task"
	toolModels   = "list_models"
	toolTasks    = "list_tasks"
	toolCleanup  = "cleanup_delegation"
)

type delegateInput struct {
	Task           string  `json:"task"                      jsonschema:"what is to be done, complete in itself: the agent sees the repository and this text and nothing else"`
	RepoPath       string  `json:"repo_path"                 jsonschema:"absolute path of a folder in the git repository"`
	Model          string  `json:"model,omitempty"           jsonschema:"a model of list_models; default: the one marked as default"`
	Harness        string  `json:"harness,omitempty"         jsonschema:"the agent that works; default: the first installed one that can use the model"`
	MaxTurns       int     `json:"max_turns,omitempty"       jsonschema:"how often the agent may ask its model; default 60"`
	TimeoutMinutes int     `json:"timeout_minutes,omitempty" jsonschema:"wall clock of the agent; default 30. Its work so far is kept when it ends"`
	Budget         budgets `json:"budget,omitempty"          jsonschema:"what the task may use, such as 2M (tokens) or 5usd, or a list of both"`
	Environment    string  `json:"environment,omitempty"     jsonschema:"name or path of an environment that bailey env build made, with the dependencies installed; the sandbox has no network to install any"`
	Ref            string  `json:"ref,omitempty"             jsonschema:"commit, branch or tag to start from; default HEAD"`
	IncludeDirty   bool    `json:"include_dirty,omitempty"   jsonschema:"carry uncommitted work along, as a commit of its own; without it the agent does not see it"`
	Guide          *bool   `json:"guide,omitempty"           jsonschema:"give the agent the executor guide as its instruction file; default true"`
	Preamble       *bool   `json:"preamble,omitempty"        jsonschema:"say before the task how results are taken; default true, false sends the task as it is"`
	ThinkingTokens int     `json:"thinking_tokens,omitempty" jsonschema:"for agents that can bound their thinking"`
	Checks         string  `json:"checks,omitempty"          jsonschema:"a command to run on the branch afterwards, as run_checks does"`
	Name           string  `json:"name,omitempty"            jsonschema:"a short name for people, in lists"`
	IdempotencyKey string  `json:"idempotency_key,omitempty" jsonschema:"the same key and request is the same task, so a call can be repeated"`
	Wait           *bool   `json:"wait,omitempty"            jsonschema:"default true: answer with the result. false: answer with the id at once, for task_status"`
}

func (in delegateInput) request() task.Request {
	return task.Request{
		Task: in.Task, RepoPath: in.RepoPath, Model: in.Model, Harness: in.Harness, MaxTurns: in.MaxTurns,
		TimeoutMinutes: in.TimeoutMinutes, Budget: in.Budget, Environment: in.Environment, Ref: in.Ref,
		IncludeDirty: in.IncludeDirty, Guide: in.Guide, Preamble: in.Preamble, ThinkingTokens: in.ThinkingTokens,
		Checks: in.Checks, Name: in.Name, IdempotencyKey: in.IdempotencyKey,
	}
}

type checksInput struct {
	RepoPath       string `json:"repo_path"                 jsonschema:"absolute path of a folder in the git repository"`
	Branch         string `json:"branch"                    jsonschema:"the branch to check: the one of a result, or any other of the repository"`
	Command        string `json:"command"                   jsonschema:"command line for sh, run in the root of the repository"`
	Environment    string `json:"environment,omitempty"     jsonschema:"name or path of an environment that bailey env build made"`
	TimeoutMinutes int    `json:"timeout_minutes,omitempty" jsonschema:"default 15"`
}

type statusInput struct {
	ID   string `json:"id"             jsonschema:"the task's id"`
	Wait bool   `json:"wait,omitempty" jsonschema:"answer when the task is done, with progress on the way"`
}

type resultInput struct {
	ID     string `json:"id"               jsonschema:"the task's id"`
	Part   string `json:"part"             jsonschema:"report, diff, log (the agent's own event stream) or checks"`
	Offset int64  `json:"offset,omitempty" jsonschema:"where to go on: next of the piece before; default 0"`
}

type idInput struct {
	ID string `json:"id" jsonschema:"the task's id"`
}

type cleanupInput struct {
	RepoPath string `json:"repo_path" jsonschema:"absolute path of a folder in the git repository"`
	Branch   string `json:"branch"    jsonschema:"agent/<id>: the branch of a result"`
}

type nothing struct{}

// started is the answer of a call that does not wait.
type started struct {
	ID      task.ID    `json:"id"`
	State   task.State `json:"state"`
	Place   int        `json:"place,omitempty"`
	Branch  string     `json:"branch"`
	Model   string     `json:"model"`
	Harness string     `json:"harness"`
}

type modelList struct {
	Models []task.Model `json:"models"`
}

type taskList struct {
	Tasks   []task.Task `json:"tasks"`
	Omitted int         `json:"omitted"` // older ones
}

// mostListed is how many tasks a list has.
const mostListed = 100

// fail is a result that says what went wrong. The error is not handed to the
// SDK, which would drop the hint.
func fail(err error) (*sdk.CallToolResult, any, error) {
	return &sdk.CallToolResult{IsError: true, Content: text(errorText(err))}, nil, nil
}

// answer is a result in both forms.
func answer(words string, value any) (*sdk.CallToolResult, any, error) {
	return &sdk.CallToolResult{Content: text(words)}, value, nil
}

func text(words string) []sdk.Content { return []sdk.Content{&sdk.TextContent{Text: words}} }

// request is what the handlers get of a call.
type request = sdk.CallToolRequest

func (s *Server) delegate(ctx context.Context, req *request, in delegateInput) (*sdk.CallToolResult, any, error) {
	r := in.request()
	if r.IdempotencyKey == "" {
		r.IdempotencyKey = "mcp-" + rand.Text()
	}
	// It returns at once. A call that is taken back meanwhile must not leave a
	// task that nobody knows of.
	within, done := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer done()
	t, err := s.cfg.Service.Delegate(within, r)
	if err != nil {
		return fail(err)
	}
	if in.Wait != nil && !*in.Wait && !cancelled(ctx) {
		st := started{t.ID, t.State, t.Place, t.ID.Branch(), t.Model, t.Harness}
		return answer(st.text(), st)
	}
	t, err = s.follow(ctx, req, t.ID)
	switch {
	case cancelled(ctx):
		return fail(s.abandon(ctx, t.ID))
	case err != nil:
		return fail(goesOn(t.ID, err))
	case t.Result == nil:
		return fail(fmt.Errorf("task %s is %s and has no result", t.ID, t.State))
	}
	return answer(resultText(t.Result), t.Result)
}

// follow waits for a task's end, and tells the caller of what happens. The
// task that it returns has its id whatever happens.
func (s *Server) follow(ctx context.Context, req *request, id task.ID) (task.Task, error) {
	p := s.report(ctx, req)
	defer p.stop()
	t, err := s.cfg.Service.Follow(ctx, id, p.progress)
	t.ID = id
	return t, err
}

// abandon ends the task of a call that was taken back.
func (s *Server) abandon(ctx context.Context, id task.ID) error {
	within, done := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer done()
	if _, err := s.cfg.Service.Cancel(within, id); err != nil {
		return fmt.Errorf("the call was cancelled, and task %s could not be: %w", id, err)
	}
	return fmt.Errorf("task %s was cancelled; its work so far is kept", id)
}

func (s *Server) checks(ctx context.Context, req *request, in checksInput) (*sdk.CallToolResult, any, error) {
	p := s.report(ctx, req)
	defer p.stop()
	r, err := s.cfg.Service.Check(ctx, task.CheckRequest{
		RepoPath: in.RepoPath, Branch: in.Branch, Command: in.Command,
		Environment: in.Environment, TimeoutMinutes: in.TimeoutMinutes,
	}, p.progress)
	if err != nil {
		return fail(err)
	}
	return answer(checkText(&r), r)
}

func (s *Server) status(ctx context.Context, req *request, in statusInput) (*sdk.CallToolResult, any, error) {
	id := task.ID(in.ID)
	t, err := s.cfg.Service.Get(ctx, id)
	if err == nil && in.Wait && t.State != task.Done {
		if t, err = s.follow(ctx, req, id); err != nil {
			err = goesOn(id, err)
		}
	}
	if err != nil {
		return fail(err)
	}
	t.Request = nil
	return answer(taskText(&t), t)
}

func (s *Server) result(ctx context.Context, _ *request, in resultInput) (*sdk.CallToolResult, any, error) {
	p, err := s.cfg.Service.Result(ctx, task.ID(in.ID), task.Part(in.Part), in.Offset)
	if err != nil {
		return fail(err)
	}
	return answer(pieceText(&p), p)
}

func (s *Server) cancel(ctx context.Context, _ *request, in idInput) (*sdk.CallToolResult, any, error) {
	t, err := s.cfg.Service.Cancel(ctx, task.ID(in.ID))
	if err != nil {
		return fail(err)
	}
	t.Request = nil
	return answer(taskText(&t), t)
}

func (s *Server) models(ctx context.Context, _ *request, _ nothing) (*sdk.CallToolResult, any, error) {
	ms, err := s.cfg.Service.Models(ctx)
	if err != nil {
		return fail(err)
	}
	return answer(modelsText(ms), modelList{append([]task.Model{}, ms...)})
}

func (s *Server) tasks(ctx context.Context, _ *request, _ nothing) (*sdk.CallToolResult, any, error) {
	all, err := s.cfg.Service.List(ctx)
	if err != nil {
		return fail(err)
	}
	list := newest(all)
	return answer(tasksText(list), list)
}

func (s *Server) cleanup(ctx context.Context, _ *request, in cleanupInput) (*sdk.CallToolResult, any, error) {
	c, err := s.cfg.Service.Cleanup(ctx, in.RepoPath, in.Branch)
	if err != nil {
		return fail(err)
	}
	return answer(cleanedText(&c), c)
}
