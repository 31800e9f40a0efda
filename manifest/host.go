package manifest

// ParseHost reads a host file: YAML with the fields of [Environment], which
// describes the machine that a server runs on, as `servebench env` writes it
// there. Nothing is required and nothing is filled in. Errors are those of
// [ParseSubject].
func ParseHost(name string, data []byte) (*Environment, error) {
	var env Environment
	file, err := parseFacts(name, "host", data, &env)
	if err != nil {
		return nil, err
	}
	if err := checkFacts(name, file, "environment", &env); err != nil {
		return nil, err
	}
	return &env, nil
}
