package api

type CountTextRequestBody = Count

type Count int
