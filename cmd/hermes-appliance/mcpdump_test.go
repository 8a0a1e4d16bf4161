// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"os"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcpDump is an MCP server that writes its environment to the file of its argument and has a
// tool that tells it.
func mcpDump() {
	env := strings.Join(os.Environ(), "\n")
	if err := os.WriteFile(os.Args[1], []byte(env), 0o600); err != nil {
		os.Exit(1)
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "dump", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "dump", Description: "The environment of this server"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: env}}}, nil, nil
	})
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		os.Exit(1)
	}
}
