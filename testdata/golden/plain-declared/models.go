package api

import "github.com/idemgen/idemgen/testdata/golden/dot-import/models"

// Kind is a model that oapi-codegen's server uses.
type Kind = models.Kind

// TransferParams are the parameters of transfer.
type TransferParams = models.TransferParams

// TransferJSONRequestBody is the body of transfer in JSON.
type TransferJSONRequestBody = models.Transfer

// TransferFormdataRequestBody is the body of transfer as a form.
type TransferFormdataRequestBody = models.Transfer

// ImportStatementJSONRequestBody is the body of importStatement in JSON.
type ImportStatementJSONRequestBody = models.Transfer
