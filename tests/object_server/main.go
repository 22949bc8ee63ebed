// An S3 server for the tests: gofakes3 in memory, on a free port of 127.0.0.1 that it prints.
//
// It ends when its standard input does, so it does not outlive the program that started it, however that one ends.
//
// What differs from S3: signatures are not checked; an object that replaces another keeps metadata of the old one that
// it does not set itself; a part of an upload cannot be copied from an object, and is refused.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	go endWithInput()
	server := gofakes3.New(s3mem.New(), gofakes3.WithLogger(gofakes3.DiscardLog())).Server()
	log.Fatal(http.Serve(listener, withoutChunks(server)))
}

func endWithInput() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}
