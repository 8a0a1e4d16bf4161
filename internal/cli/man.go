// SPDX-License-Identifier: MIT

package cli

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

func newMan(st *state) *cobra.Command {
	cmd := &cobra.Command{
		Use: "man [FLAGS]", Short: "Print the manual page, or the reference of all commands",
		Long:                  "Prints hermes-appliance(1), made from the same texts as --help. With --markdown it prints them as one document.",
		Example:               "  hermes-appliance man > /usr/local/share/man/man1/hermes-appliance.1",
		DisableFlagsInUseLine: true, Args: cobra.NoArgs,
	}
	markdown := cmd.Flags().Bool("markdown", false, "print Markdown")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return handler(st, func(_ context.Context, env Env) error {
			page := manPage(cmd.Root())
			if *markdown {
				page = commandReference(cmd.Root())
			}
			_, err := env.Stdout.Write(page)
			return err
		})(cmd, nil)
	}
	exits(cmd, exitcode.OK, exitcode.Error, exitcode.Usage)
	return cmd
}

// walk calls visit for a command and all below it, in the order of the help.
func walk(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			walk(c, visit)
		}
	}
}

// commandReference is docs/commands.md: what --help prints, for every command.
func commandReference(root *cobra.Command) []byte {
	var b bytes.Buffer
	b.WriteString("# Commands\n\nWhat `--help` says of each command. `hermes-appliance man --markdown` makes this file.\n")
	walk(root, func(c *cobra.Command) {
		fmt.Fprintf(&b, "\n## %s\n\n```text\n%s```\n", c.CommandPath(), helpText(c))
	})
	return b.Bytes()
}

// manPage is hermes-appliance(1) in the man macros.
func manPage(root *cobra.Command) []byte {
	var b bytes.Buffer
	name := strings.ReplaceAll(root.Name(), "-", `\-`)
	// Without a date the same binary makes the same page.
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"%s\" \"User Commands\"\n", strings.ToUpper(name), name)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n.SH SYNOPSIS\n.B %s\nCOMMAND\n.SH DESCRIPTION\n", name, manText(lowerFirst(root.Short)), name)
	manParagraphs(&b, root.Long)
	b.WriteString(".SH COMMANDS\n")
	walk(root, func(c *cobra.Command) {
		if c != root {
			manCommand(&b, c)
		}
	})
	b.WriteString(".SH ENVIRONMENT\n.TP\n.B HERMES_HOME\nthe home that is meant; without it ~/.hermes\n.SH EXIT STATUS\n")
	for _, code := range exitcode.All() {
		fmt.Fprintf(&b, ".TP\n.B %d\n%s\n", int(code), manText(code.Meaning()))
	}
	return b.Bytes()
}

func manCommand(b *bytes.Buffer, c *cobra.Command) {
	fmt.Fprintf(b, ".SS \"%s\"\n", manText(strings.TrimPrefix(c.UseLine(), Name+" ")))
	long := c.Long
	if long == "" {
		long = c.Short + "."
	}
	manParagraphs(b, long)
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		fmt.Fprintf(b, ".TP\n.B %s\n%s\n", manText(strings.TrimSpace("--"+f.Name+" "+value)), manText(usage))
	})
	if c.Example != "" {
		fmt.Fprintf(b, ".PP\n.nf\n%s\n.fi\n", manText(c.Example))
	}
}

// manParagraphs writes a text whose paragraphs are divided by empty lines.
func manParagraphs(b *bytes.Buffer, text string) {
	for i, p := range strings.Split(text, "\n\n") {
		if i > 0 { // a heading makes its own first
			b.WriteString(".PP\n")
		}
		b.WriteString(manText(p) + "\n")
	}
}

// manText takes from a text what roff would read as its own.
func manText(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, `"`, `\(dq`).Replace(s)
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}

func lowerFirst(s string) string { return strings.ToLower(s[:1]) + s[1:] }
