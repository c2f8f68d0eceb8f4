package fiber

import "context"

type Ctx struct{}

func (*Ctx) UserContext() context.Context { return nil }
