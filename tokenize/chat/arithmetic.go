package chat

import (
	"errors"
	"fmt"
	"html"
	"math"
	"math/bits"
	"regexp"
	"strings"
	"unicode/utf8"
)

func (e *binary) eval(s scope) (any, error) {
	left, err := s.eval(e.left)
	if err != nil {
		return nil, err
	}
	right, err := s.eval(e.right)
	if err != nil {
		return nil, err
	}
	return calculate(s, e.op, left, right)
}

func calculate(s scope, op string, left, right any) (any, error) {
	if form, ok := left.(string); ok && op == "%" {
		return percent(s, form, right)
	}
	if err := errors.Join(isSet(left), isSet(right)); err != nil {
		return nil, err
	}
	a, ok1 := asInt(left)
	b, ok2 := asInt(right)
	if ok1 && ok2 {
		return integers(op, a, b)
	}
	x, ok1 := asFloat(left)
	y, ok2 := asFloat(right)
	if ok1 && ok2 {
		return floats(op, x, y)
	}
	switch op {
	case "+":
		if v, err := add(s, left, right); v != nil || err != nil {
			return v, err
		}
	case "*":
		if n, ok := asInt(left); ok {
			left, right = right, n
		}
		if n, ok := asInt(right); ok {
			if v, err := repeat(s, left, n); v != nil || err != nil {
				return v, err
			}
		}
	}
	return nil, fmt.Errorf("unsupported operand type(s) for %s: '%s' and '%s'", op, typeName(left), typeName(right))
}

// add joins two strings, lists or tuples; nil where they are none.
func add(s scope, left, right any) (any, error) {
	if a, ok := text(left); ok {
		b, ok := text(right)
		if !ok {
			return nil, nil
		}
		_, safe1 := left.(markup)
		_, safe2 := right.(markup)
		if safe1 && !safe2 {
			b = html.EscapeString(b)
		}
		if safe2 && !safe1 {
			a = html.EscapeString(a)
		}
		if err := s.make(len(a) + len(b)); err != nil {
			return nil, err
		}
		if safe1 || safe2 {
			return markup(a + b), nil
		}
		return a + b, nil
	}
	a, ok1 := left.(*sequence)
	b, ok2 := right.(*sequence)
	if !ok1 || !ok2 || a.kind != b.kind || a.kind > tuple {
		return nil, nil
	}
	if err := s.spend(len(a.items) + len(b.items)); err != nil {
		return nil, err
	}
	all := make([]any, 0, len(a.items)+len(b.items))
	return &sequence{kind: a.kind, items: append(append(all, a.items...), b.items...)}, nil
}

func repeat(s scope, of any, n int) (any, error) {
	n = max(n, 0)
	switch of := of.(type) {
	case string:
		high, size := bits.Mul(uint(len(of)), uint(n))
		if high != 0 || size > maxOutput {
			return nil, errTooLong
		}
		return strings.Repeat(of, n), s.make(int(size))
	case *sequence:
		if of.kind > tuple {
			return nil, nil
		}
		if len(of.items) == 0 {
			return of, nil
		}
		high, size := bits.Mul(uint(len(of.items)), uint(n))
		if high != 0 || size > maxSteps {
			return nil, fmt.Errorf("list of more than %d values", maxSteps)
		}
		if err := s.spend(int(size)); err != nil {
			return nil, err
		}
		all := make([]any, 0, size)
		for range n {
			all = append(all, of.items...)
		}
		return &sequence{kind: of.kind, items: all}, nil
	}
	return nil, nil
}

var errOverflow = errors.New("integer of more than 64 bits: not supported")

// integers calculates on ints; Python's are unbounded, an overflow is an error
// here.
func integers(op string, a, b int) (any, error) {
	switch op {
	case "+":
		if c := a + b; (c > a) == (b > 0) {
			return c, nil
		}
		return nil, errOverflow
	case "-":
		if c := a - b; (c < a) == (b > 0) {
			return c, nil
		}
		return nil, errOverflow
	case "*":
		c := a * b
		if a != 0 && (c/a != b || a == -1 && b == math.MinInt) {
			return nil, errOverflow
		}
		return c, nil
	case "**":
		return power(a, b)
	}
	if b == 0 {
		return nil, errors.New("division by zero")
	}
	if a == math.MinInt && b == -1 {
		return nil, errOverflow
	}
	switch op {
	case "/":
		return float64(a) / float64(b), nil
	case "//":
		q := a / b
		if a%b != 0 && (a < 0) != (b < 0) {
			q--
		}
		return q, nil
	}
	m := a % b
	if m != 0 && (m < 0) != (b < 0) {
		m += b
	}
	return m, nil
}

func power(a, b int) (any, error) {
	if b < 0 {
		if a == 0 {
			return nil, errors.New("0.0 cannot be raised to a negative power")
		}
		return math.Pow(float64(a), float64(b)), nil
	}
	result := 1
	for ; b > 0; b-- {
		v, err := integers("*", result, a)
		if err != nil {
			return nil, err
		}
		result = v.(int)
		if result == 0 || result == 1 && a == 1 {
			break
		}
		if a == -1 && b > 2 {
			b = b%2 + 2 // the rest repeats
		}
	}
	return result, nil
}

func floats(op string, x, y float64) (any, error) {
	switch op {
	case "+":
		return x + y, nil
	case "-":
		return x - y, nil
	case "*":
		return x * y, nil
	case "**":
		v := math.Pow(x, y)
		if math.IsNaN(v) && !math.IsNaN(x) && !math.IsNaN(y) {
			return nil, errors.New("complex numbers: not supported")
		}
		if math.IsInf(v, 0) && !math.IsInf(x, 0) && !math.IsInf(y, 0) {
			return nil, errors.New("numerical result out of range")
		}
		return v, nil
	}
	if y == 0 {
		return nil, errors.New("float division by zero")
	}
	if op == "/" {
		return x / y, nil
	}
	m := math.Mod(x, y)
	if m != 0 && (m < 0) != (y < 0) {
		m += y
	}
	if op == "%" {
		if m == 0 {
			m = math.Copysign(0, y)
		}
		return m, nil
	}
	q := (x - m) / y
	floor := math.Floor(q)
	if q-floor > 0.5 {
		floor++
	}
	return floor, nil
}

var verb = regexp.MustCompile(`^%(\([^)]*\))?([-+ 0]*)(\d{0,4})(\.\d{0,4})?([a-zA-Z%])`)

// percent is Python's form % values.
func percent(s scope, form string, values any) (any, error) {
	var given []any
	named, isDict := values.(*dict)
	_, isText := text(values)
	// What has members by key may be left over.
	may := isSequence(values) && !isText
	if seq, ok := values.(*sequence); ok && seq.kind == tuple {
		given, may = seq.items, false
	} else {
		given = []any{values}
	}
	used := 0
	var b strings.Builder
	for {
		i := strings.IndexByte(form, '%')
		if i < 0 {
			break
		}
		b.WriteString(form[:i])
		form = form[i:]
		m := verb.FindStringSubmatch(form)
		if m == nil {
			return nil, fmt.Errorf("format %.10q: not supported", form)
		}
		form = form[len(m[0]):]
		if m[5] == "%" {
			b.WriteByte('%')
			continue
		}
		var v any
		if m[1] != "" && isDict {
			var ok bool
			if v, ok = named.get(m[1][1 : len(m[1])-1]); !ok {
				return nil, fmt.Errorf("format needs the key %s", m[1])
			}
			used = len(given)
		} else if m[1] == "" && used < len(given) {
			v = given[used]
			used++
		} else {
			return nil, errors.New("not enough arguments for format string")
		}
		if err := verbText(s, &b, m, v); err != nil {
			return nil, err
		}
	}
	if used < len(given) && !may {
		return nil, errors.New("not all arguments converted during string formatting")
	}
	b.WriteString(form)
	return b.String(), s.make(b.Len())
}

func verbText(s scope, b *strings.Builder, m []string, v any) error {
	layout, kind := "%"+m[2]+m[3]+m[4], m[5]
	switch kind {
	case "s", "r":
		var t strings.Builder
		if kind == "r" {
			if err := repr(s, &t, v); err != nil {
				return err
			}
		} else {
			whole, err := str(s, v)
			if err != nil {
				return err
			}
			t.WriteString(whole)
		}
		// Python pads text with blanks whatever the flags.
		layout = "%" + strings.NewReplacer("0", "", "+", "", " ", "").Replace(m[2]) + m[3] + m[4]
		fmt.Fprintf(b, layout+"s", t.String())
		return s.make(b.Len())
	case "d", "i", "u":
		n, ok := asInt(v)
		if f, isFloat := v.(float64); isFloat && math.Abs(f) < 1<<62 {
			n, ok = int(f), true
		}
		if !ok || m[4] != "" {
			return fmt.Errorf("%%%s format: a real number is required, not %s", kind, typeName(v))
		}
		fmt.Fprintf(b, layout+"d", n)
		return nil
	case "x", "X", "o":
		if n, ok := asInt(v); ok && m[4] == "" {
			fmt.Fprintf(b, layout+kind, n)
			return nil
		}
	case "f", "F", "e", "E", "g", "G":
		if f, ok := asFloat(v); ok && !math.IsNaN(f) && !math.IsInf(f, 0) {
			if m[4] == "" {
				layout += ".6"
			}
			fmt.Fprintf(b, layout+kind, f)
			return nil
		}
	case "c":
		if t, ok := text(v); ok && utf8.RuneCountInString(t) == 1 && m[2] == "" {
			fmt.Fprintf(b, "%"+m[3]+"s", t)
			return nil
		}
	}
	return fmt.Errorf("format %%%s of a %s: not supported", kind, typeName(v))
}
