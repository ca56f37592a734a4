package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
)

var completionCommand = &cli.Command{
	Name:  "completion",
	Usage: "print a script that completes commands and flags in a shell",
	Description: `What to put into the start-up file of a shell; in zsh after compinit:
  bash   source <(weir completion bash)
  zsh    source <(weir completion zsh)
  fish   weir completion fish > ~/.config/fish/completions/weir.fish`,
	Subcommands: []*cli.Command{
		{Name: "bash", Usage: "for bash", Flags: flags(), Action: completes(func(a *cli.App) string { return bashScript(a) })},
		{Name: "zsh", Usage: "for zsh", Flags: flags(), Action: completes(zshScript)},
		{Name: "fish", Usage: "for fish", Flags: flags(), Action: completes(fishScript)},
	},
}

func completes(script func(*cli.App) string) cli.ActionFunc {
	return plain(func(_ context.Context, s *session) error {
		if _, err := arguments(s.c); err != nil {
			return err
		}
		fmt.Fprint(s.out, script(s.c.App))
		return nil
	})
}

// each calls f for every visible command with its path of names, the program itself first.
func each(app *cli.App, f func(path []string, subs []*cli.Command, flags []cli.Flag)) {
	f(nil, visible(app.Commands), nil)
	var walk func(path []string, cmds []*cli.Command)
	walk = func(path []string, cmds []*cli.Command) {
		for _, c := range visible(cmds) {
			p := append(append([]string(nil), path...), c.Name)
			f(p, visible(c.Subcommands), c.Flags)
			walk(p, c.Subcommands)
		}
	}
	walk(nil, app.Commands)
}

func words(subs []*cli.Command, flags []cli.Flag) string {
	var out []string
	for _, c := range subs {
		out = append(out, c.Name)
	}
	for _, f := range flags {
		if n := f.Names()[0]; n != "help" { // the command that runs has it among its flags, the others do not
			out = append(out, "--"+n)
		}
	}
	return strings.Join(append(out, "--help"), " ")
}

// bashScript finds the innermost command among the words before the cursor and offers its commands and flags, else file names.
func bashScript(app *cli.App) string {
	var b strings.Builder
	b.WriteString(`# completion of weir for bash
_weir() {
    local cur="${COMP_WORDS[COMP_CWORD]}" path="weir" i words=""
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "$path ${COMP_WORDS[i]}" in
`)
	var cases, offers strings.Builder
	each(app, func(path []string, subs []*cli.Command, flags []cli.Flag) {
		full := strings.Join(append([]string{"weir"}, path...), " ")
		if len(path) > 0 {
			fmt.Fprintf(&cases, "        %q) path=%q ;;\n", full, full)
		}
		fmt.Fprintf(&offers, "    %q) words=%q ;;\n", full, words(subs, flags))
	})
	b.WriteString(cases.String())
	b.WriteString("        esac\n    done\n    case \"$path\" in\n")
	b.WriteString(offers.String())
	b.WriteString(`    esac
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
    if [[ ${#COMPREPLY[@]} -eq 0 ]]; then
        compopt -o filenames 2>/dev/null
        COMPREPLY=($(compgen -f -- "$cur"))
    fi
}
complete -F _weir weir
`)
	return b.String()
}

func zshScript(app *cli.App) string {
	return "# completion of weir for zsh, by way of its emulation of bash's\nautoload -U +X bashcompinit && bashcompinit\n" + bashScript(app)
}

func fishScript(app *cli.App) string {
	var b strings.Builder
	b.WriteString("# completion of weir for fish\n")
	each(app, func(path []string, subs []*cli.Command, flags []cli.Flag) {
		cond := "__fish_use_subcommand"
		if len(path) > 0 {
			cond = "__fish_seen_subcommand_from " + path[0]
			for _, p := range path[1:] {
				cond += "; and __fish_seen_subcommand_from " + p
			}
		}
		for _, c := range subs {
			fmt.Fprintf(&b, "complete -c weir -n %s -f -a %s -d %s\n", fishQuote(cond), c.Name, fishQuote(c.Usage))
		}
		for _, f := range flags {
			usage, value := "", ""
			if d, ok := f.(cli.DocGenerationFlag); ok {
				usage = strings.ReplaceAll(d.GetUsage(), "`", "")
				if d.TakesValue() {
					value = " -r"
				}
			}
			fmt.Fprintf(&b, "complete -c weir -n %s -l %s%s -d %s\n", fishQuote(cond), f.Names()[0], value, fishQuote(usage))
		}
	})
	return b.String()
}

func fishQuote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}
