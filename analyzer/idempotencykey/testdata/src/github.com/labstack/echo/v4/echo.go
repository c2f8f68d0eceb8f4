package echo

import "net/http"

type Context interface{ Request() *http.Request }
