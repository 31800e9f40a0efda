# Ends a server when the program that started it has gone. Arguments: the name
# and the value of the variable that marks the server's processes, and how many
# seconds TERM may take, and a folder to remove then, "" for none: of logs that
# nobody will read. Standard input: a line with the process id of
# each leader of a session; "done" for an orderly end. The end of input without
# it means that the program was killed: the kernel has closed the pipe.
trap '' HUP INT QUIT TERM PIPE
mark=$1=$2
patience=$3
folder=$4
leaders=' '
while read -r word; do
	[ "$word" = done ] && exit 0
	leaders="$leaders$word "
done

# table becomes "pid parent group session start" of each living process.
snapshot() {
	table=
	if [ -r /proc/self/stat ]; then
		for dir in /proc/[0-9]*; do
			{ read -r line <"$dir/stat"; } 2>/dev/null || continue
			set -- ${line##*) }
			[ $# -ge 20 ] || continue
			case $1 in Z | X | x) continue ;; esac
			table="$table ${dir#/proc/} $2 $3 $4 ${20}"
		done
		marked=" $(grep -lF "$mark" /proc/[0-9]*/environ 2>/dev/null | tr -cs '0-9' ' ') "
	else
		table=$(ps -A -o pid= -o ppid= -o pgid= -o state= | while read -r pid parent group state; do
			case $state in (Z*) ;; (*) printf ' %s %s %s 0 0' "$pid" "$parent" "$group" ;; esac
		done)
		marked=' '
	fi
}

# known becomes the server's living processes, as " pid:start ": the marked ones,
# those in a leader's group or session, those known before, and their children.
find_server() {
	snapshot
	before=$known
	known=' '
	more=1
	while [ -n "$more" ]; do
		more=
		set -- $table
		while [ $# -ge 5 ]; do
			case $known in *" $1:"*) shift 5; continue ;; esac
			hit=
			case $marked in *" $1 "*) hit=1 ;; esac
			case $leaders in *" $3 "* | *" $4 "*) hit=1 ;; esac
			case $before in *" $1:$5 "*) hit=1 ;; esac
			case $known in *" $2:"*) hit=1 ;; esac
			[ "$1" -gt 1 ] && [ "$1" != $$ ] || hit=
			[ -n "$hit" ] && known="$known$1:$5 " more=1
			shift 5
		done
	done
}

known=' '
asked=' '
none=0
ticks=0
begin=$(date +%s)
# TERM once for each process, KILL again and again after that, until none is left
# or nothing helps. On a loaded machine a look takes its time, hence the clock;
# the count is for one that is set back.
while [ $ticks -lt $((patience * 5 + 100)) ]; do
	find_server
	# While a process starts another program its environment cannot be read; one
	# look may miss it.
	[ "$known" = ' ' ] && none=$((none + 1)) || none=0
	if [ $none -ge 2 ]; then
		[ -z "$folder" ] || rm -rf -- "$folder"
		exit 0
	fi
	now=$(date +%s)
	late=
	[ $((now - begin)) -lt "$patience" ] && [ $ticks -lt $((patience * 5)) ] || late=1
	for process in $known; do
		if [ -n "$late" ]; then
			kill -s KILL "${process%:*}" 2>/dev/null
		else
			case $asked in *" $process "*) continue ;; esac
			asked="$asked$process "
			kill -s TERM "${process%:*}" 2>/dev/null
		fi
	done
	if sleep 0.2 2>/dev/null; then
		ticks=$((ticks + 1))
	else # whole seconds alone
		sleep 1
		ticks=$((ticks + 5))
	fi
done
exit 1
