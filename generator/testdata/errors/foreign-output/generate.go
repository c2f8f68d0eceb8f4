// Package foreign is written by hand.
package foreign

type CreatePaymentOp struct{}
