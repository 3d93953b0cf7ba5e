//go:build tools

package tools

import _ "k8s.io/apiextensions-apiserver/pkg/cmd/server"
