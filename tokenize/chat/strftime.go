package chat

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// strftimeNow is transformers' strftime_now: the local time without a zone, in
// the C locale.
func strftimeNow(s scope, a *args) (any, error) {
	b, err := a.bind(1, "format")
	if err != nil {
		return nil, err
	}
	layout, err := or(b[0], "")
	if err != nil {
		return nil, err
	}
	text, err := strftime(s.now(), layout)
	if err != nil {
		return nil, err
	}
	return text, s.make(len(text))
}

// layouts are the directives that Go's time knows under another name.
var layouts = map[byte]string{
	'a': "Mon", 'A': "Monday", 'b': "Jan", 'h': "Jan", 'B': "January", 'd': "02", 'm': "01", 'y': "06",
	'H': "15", 'I': "03", 'p': "PM", 'M': "04", 'S': "05", 'j': "002",
	'c': "Mon Jan _2 15:04:05 2006", 'x': "01/02/06", 'X': "15:04:05", 'D': "01/02/06",
	'F': "2006-01-02", 'R': "15:04", 'T': "15:04:05", 'r': "03:04:05 PM",
}

// strftime follows Python on Linux: C's directives, %f, and the flags - and _.
func strftime(t time.Time, layout string) (string, error) {
	var b strings.Builder
	for {
		i := strings.IndexByte(layout, '%')
		if i < 0 {
			b.WriteString(layout)
			return b.String(), nil
		}
		b.WriteString(layout[:i])
		layout = layout[i+1:]
		flag := byte(0)
		if layout != "" && (layout[0] == '-' || layout[0] == '_') {
			flag, layout = layout[0], layout[1:]
		}
		if layout == "" {
			return "", fmt.Errorf("strftime_now: a single %% at the end")
		}
		text, err := directive(t, layout[0])
		if err != nil {
			return "", err
		}
		layout = layout[1:]
		switch trimmed := strings.TrimLeft(text, "0 "); {
		case flag == 0:
		case strings.Trim(text, "0123456789 ") != "" || text == "":
			return "", fmt.Errorf("strftime_now: the flag %c before what is no number: not supported", flag)
		default:
			if trimmed == "" {
				trimmed = "0"
			}
			if flag == '_' {
				trimmed = strings.Repeat(" ", len(text)-len(trimmed)) + trimmed
			}
			text = trimmed
		}
		b.WriteString(text)
	}
}

func directive(t time.Time, d byte) (string, error) {
	if layout, ok := layouts[d]; ok {
		return t.Format(layout), nil
	}
	switch d {
	case '%':
		return "%", nil
	case 'n':
		return "\n", nil
	case 't':
		return "\t", nil
	case 'e':
		return fmt.Sprintf("%2d", t.Day()), nil
	case 'k':
		return fmt.Sprintf("%2d", t.Hour()), nil
	case 'l':
		return fmt.Sprintf("%2d", (t.Hour()+11)%12+1), nil
	case 'P':
		return strings.ToLower(t.Format("PM")), nil
	case 'Y':
		return strconv.Itoa(t.Year()), nil
	case 'C':
		return fmt.Sprintf("%02d", t.Year()/100), nil
	case 'f':
		return fmt.Sprintf("%06d", t.Nanosecond()/1000), nil
	case 'z', 'Z':
		return "", nil // the time has no zone
	case 'w':
		return strconv.Itoa(int(t.Weekday())), nil
	case 'u':
		return strconv.Itoa((int(t.Weekday())+6)%7 + 1), nil
	case 'U':
		return fmt.Sprintf("%02d", (t.YearDay()+6-int(t.Weekday()))/7), nil
	case 'W':
		return fmt.Sprintf("%02d", (t.YearDay()+6-(int(t.Weekday())+6)%7)/7), nil
	case 'G':
		year, _ := t.ISOWeek()
		return strconv.Itoa(year), nil
	case 'V':
		_, week := t.ISOWeek()
		return fmt.Sprintf("%02d", week), nil
	}
	return "", fmt.Errorf("strftime_now: %%%c: not supported", d)
}
