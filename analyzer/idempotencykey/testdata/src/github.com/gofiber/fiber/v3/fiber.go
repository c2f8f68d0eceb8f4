package fiber

import "context"

type Ctx interface {
	context.Context
	Context() context.Context
}
