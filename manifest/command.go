package manifest

import (
	"strconv"
	"strings"
)

// command is a parsed command line: what stands before the first flag, and the
// values of each flag. A flag may have several values or none; given twice,
// the last counts.
type command struct {
	env   map[string]string
	words []string
	flags map[string][]string
}

// engineCommands are the lines of a launch command that start an engine; a
// line that starts something else, such as a proxy, is left out.
func engineCommands(text string) []command {
	var engines []command
	for line := range strings.SplitSeq(text, "\n") {
		if c := parseLaunch(SplitWords(line)); c.engine != "" {
			engines = append(engines, c.command)
		}
	}
	return engines
}

// parseCommand reads a line as a shell and argparse would: --a_b is --a-b,
// --flag=value is --flag value, and a negative number is a value.
func parseCommand(line string) command {
	c := command{env: map[string]string{}, flags: map[string][]string{}}
	flag := ""
	for _, word := range SplitWords(line) {
		name, value, hasValue := strings.Cut(word, "=")
		switch {
		case isFlag(word):
			flag = flagName(name)
			c.flags[flag] = nil
			if hasValue {
				c.flags[flag] = []string{value}
			}
		case flag != "":
			c.flags[flag] = append(c.flags[flag], word)
		case hasValue && len(c.words) == 0:
			c.env[name] = value
		default:
			c.words = append(c.words, word)
		}
	}
	return c
}

// isFlag reports whether a word begins an option.
func isFlag(word string) bool {
	if len(word) < 2 || word[0] != '-' {
		return false
	}
	_, err := strconv.ParseFloat(word, 64)
	return err != nil
}

// flagName is the name of an option without dashes in front and with hyphens
// for underscores.
func flagName(word string) string {
	return strings.ReplaceAll(strings.TrimLeft(word, "-"), "_", "-")
}

func (c command) has(flag string) bool {
	_, ok := c.flags[flag]
	return ok
}

// value is the one value of a flag. A placeholder such as <local-path> stands
// for a value nobody knows, which is none.
func (c command) value(flag string) (string, bool) {
	values := c.flags[flag]
	if len(values) == 0 || strings.HasPrefix(values[0], "<") {
		return "", false
	}
	return values[0], true
}

// number is the value of a flag as a number.
func (c command) number(flag string) (float64, bool) {
	s, ok := c.value(flag)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseFloat(s, 64)
	return n, err == nil
}

// SplitWords splits a line as a shell does, $'...' included, without expanding
// anything: it reads what [Redactor.Command] writes. An open quote ends with the line.
func SplitWords(line string) []string {
	var words []string
	var word strings.Builder
	inWord := false
	for line != "" {
		switch c := line[0]; {
		case strings.HasPrefix(line, "$'"):
			text, rest := escaped(line[2:])
			word.WriteString(text)
			line, inWord = rest, true
			continue
		case c == '\'':
			text, rest, _ := strings.Cut(line[1:], "'")
			word.WriteString(text)
			line, inWord = rest, true
			continue
		case c == '"':
			text, rest := doubleQuoted(line[1:])
			word.WriteString(text)
			line, inWord = rest, true
			continue
		case c == '\\':
			line, inWord = line[1:], true
			if line == "" {
				continue
			}
			word.WriteByte(line[0])
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			if inWord {
				words = append(words, word.String())
			}
			word.Reset()
			inWord = false
		default:
			word.WriteByte(c)
			inWord = true
		}
		line = line[1:]
	}
	if inWord {
		words = append(words, word.String())
	}
	return words
}

// doubleQuoted reads up to the closing double quote.
func doubleQuoted(text string) (string, string) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '"':
			return b.String(), text[i+1:]
		case text[i] == '\\' && i+1 < len(text) && strings.IndexByte("\"\\$`", text[i+1]) >= 0:
			i++
		}
		b.WriteByte(text[i])
	}
	return b.String(), ""
}

// escaped reads up to the end of $'...', with the escapes that [quote] writes.
func escaped(text string) (string, string) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '\'' {
			return b.String(), text[i+1:]
		}
		if c == '\\' && i+1 < len(text) {
			i++
			switch c = text[i]; c {
			case 'n':
				c = '\n'
			case 't':
				c = '\t'
			case 'x':
				n, err := strconv.ParseUint(text[min(i+1, len(text)):min(i+3, len(text))], 16, 8)
				if err == nil {
					c, i = byte(n), i+2
				}
			}
		}
		b.WriteByte(c)
	}
	return b.String(), ""
}
