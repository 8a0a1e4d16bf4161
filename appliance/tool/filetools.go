// SPDX-License-Identifier: MIT

package tool

import (
	"context"
	"errors"

	"github.com/hermes-appliance/hermes-appliance/appliance/files"
)

// FileSystem returns the files that a session works on; it may bring a terminal backend up.
type FileSystem func(ctx context.Context) (*files.FS, error)

// Files returns the tools of the toolset "file".
func Files(fs FileSystem) []Tool {
	return []Tool{readFile(fs), writeFile(fs), patchTool(fs), searchFiles(fs)}
}

const crossProfile = "Allow a change of another profile's skills, plugins, cron jobs or memories. Only after the user asked for it."

func readFile(fs FileSystem) Tool {
	return Tool{
		Name: "read_file", Toolset: "file", Parallel: true,
		Description: "Read a text file with line numbers, a page at a time. Use it instead of cat, head or tail. Lines come as 'NUMBER|TEXT'. " +
			"A missing file gives names like it. Images and other binary files are not shown: use vision_analyze for images.",
		Schema: object(map[string]Schema{
			"path":   text("The file: absolute, from the working directory on, or ~/…"),
			"offset": whole("First line to show, counted from 1", 0, 0, 1),
			"limit":  whole("How many lines to show, at most 2000", 0, 0, 500),
		}, "path"),
		Run: func(ctx context.Context, a Args) (any, error) {
			f, err := fs(ctx)
			if err != nil {
				return nil, err
			}
			return f.Read(ctx, files.ReadRequest{Path: a.String("path"), Offset: a.Int("offset"), Limit: a.Int("limit")}), nil
		},
	}
}

func writeFile(fs FileSystem) Tool {
	return Tool{
		Name: "write_file", Toolset: "file",
		Description: "Write a file, replacing all that is in it. Use it instead of echo or a here-document. Directories on the way are made. For a change of a part use 'patch'.",
		Schema: object(map[string]Schema{
			"path":          text("The file to write"),
			"content":       text("The whole content"),
			"cross_profile": flag(crossProfile),
		}, "path", "content"),
		Run: func(ctx context.Context, a Args) (any, error) {
			f, err := fs(ctx)
			if err != nil {
				return nil, err
			}
			return f.Write(ctx, files.WriteRequest{Path: a.String("path"), Content: a.String("content"), Foreign: a.Bool("cross_profile")}), nil
		},
	}
}

func patchTool(fs FileSystem) Tool {
	mode := choice("'replace' needs path, old_string and new_string; 'patch' needs patch.", "replace", "patch")
	mode["default"] = "replace"
	return Tool{
		Name: "patch", Toolset: "file",
		Description: "Change parts of files. Use it instead of sed or awk. Returns a unified diff.\n" +
			"mode 'replace': old_string is found and replaced by new_string; it must fit one place. Differences in blanks, indentation or typographic characters do not matter.\n" +
			"mode 'patch': a V4A patch changes several files, all or none.",
		Schema: object(map[string]Schema{
			"mode":        mode,
			"path":        text("The file (mode 'replace')"),
			"old_string":  text("The text to replace, with enough around it to fit only one place (mode 'replace')"),
			"new_string":  text("The new text; '' deletes (mode 'replace')"),
			"replace_all": flag("Replace every place where old_string stands"),
			"patch": text("V4A patch (mode 'patch'):\n*** Begin Patch\n*** Update File: path\n@@ a line above the change @@\n context\n-removed\n+added\n*** Add File: path\n+line\n" +
				"*** Delete File: path\n*** Move File: from -> to\n*** End Patch"),
			"cross_profile": flag(crossProfile),
		}),
		Run: func(ctx context.Context, a Args) (any, error) { return runPatch(ctx, fs, a) },
	}
}

func runPatch(ctx context.Context, fs FileSystem, a Args) (any, error) {
	mode := a.String("mode")
	if mode == "" && a.Has("patch") && !a.Has("old_string") {
		mode = "patch"
	}
	if mode == "patch" && a.String("patch") == "" {
		return nil, errors.New(`"patch" is missing: mode 'patch' takes a V4A patch`)
	}
	if mode != "patch" {
		for _, k := range []string{"path", "old_string", "new_string"} {
			if !a.Has(k) {
				return nil, errors.New(`"` + k + `" is missing: mode 'replace' takes path, old_string and new_string`)
			}
		}
	}
	f, err := fs(ctx)
	if err != nil {
		return nil, err
	}
	if mode == "patch" {
		return f.Patch(ctx, a.String("patch"), a.Bool("cross_profile")), nil
	}
	return f.Replace(ctx, files.ReplaceRequest{
		Path: a.String("path"), Old: a.String("old_string"), New: a.String("new_string"), All: a.Bool("replace_all"), Foreign: a.Bool("cross_profile"),
	}), nil
}

func searchFiles(fs FileSystem) Tool {
	target := choice("'content' looks into files, 'files' looks for files by name", "content", "files", "grep", "find")
	target["default"] = "content"
	mode := choice("For content: matching lines, only the files, or counts", "content", "files_only", "count")
	mode["default"] = "content"
	return Tool{
		Name: "search_files", Toolset: "file", Parallel: true,
		Description: "Search in files, or for files by name. Use it instead of grep, rg, find or ls. Hidden and ignored files are left out.\n" +
			"target 'content': pattern is a regular expression, matched line by line. target 'files': pattern is a glob ('*.py', 'src/**/*.go'); the newest come first.",
		Schema: object(map[string]Schema{
			"pattern":     text("Regular expression, or glob for target 'files'"),
			"target":      target,
			"path":        text("Directory or file to search; default: the working directory"),
			"file_glob":   text("Only files whose name fits, as in '*.py' (target 'content')"),
			"limit":       whole("How many results, default 50", 0, 0, 50),
			"offset":      whole("How many results to skip", 0, 0, 0),
			"output_mode": mode,
			"context":     whole("Lines to show around each match", 0, 0, 0),
		}, "pattern"),
		Run: func(ctx context.Context, a Args) (any, error) {
			f, err := fs(ctx)
			if err != nil {
				return nil, err
			}
			t := a.String("target")
			return f.Search(ctx, files.SearchRequest{
				Pattern: a.String("pattern"), Files: t == "files" || t == "find", Path: a.String("path"), Glob: a.String("file_glob"),
				Mode: a.String("output_mode"), Limit: a.Int("limit"), Offset: a.Int("offset"), Context: a.Int("context"),
			}), nil
		},
	}
}
