package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// withoutChunks decodes bodies in the encoding aws-chunked, with or without signatures and trailers: gofakes3 decodes
// only one of its forms, and parts of multipart uploads in none.
func withoutChunks(next http.Handler) http.Handler {
	return http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		if strings.HasPrefix(request.Header.Get("X-Amz-Content-Sha256"), "STREAMING-") {
			length := request.Header.Get("X-Amz-Decoded-Content-Length")
			size, err := strconv.ParseInt(length, 10, 64)
			if err != nil {
				http.Error(response, "x-amz-decoded-content-length is not a number", http.StatusBadRequest)
				return
			}
			request.Body = &chunkedBody{body: request.Body, lines: bufio.NewReader(request.Body)}
			request.ContentLength = size
			request.Header.Set("Content-Length", length)
			request.Header.Set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")
			request.Header.Del("Content-Encoding")
		}
		next.ServeHTTP(response, request)
	})
}

type chunkedBody struct {
	body  io.ReadCloser
	lines *bufio.Reader
	left  int64
	ended bool
}

func (b *chunkedBody) Read(into []byte) (int, error) {
	if b.ended {
		return 0, io.EOF
	}
	if b.left == 0 {
		if err := b.nextChunk(); err != nil {
			return 0, err
		}
	}
	read, err := b.lines.Read(into[:min(int64(len(into)), b.left)])
	if b.left -= int64(read); b.left == 0 && err == nil {
		_, err = b.lines.Discard(len("\r\n"))
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return read, err
}

// nextChunk reads "SIZE;chunk-signature=..." and, after the last chunk, which is empty, the trailers.
func (b *chunkedBody) nextChunk() error {
	line, err := b.lines.ReadString('\n')
	if err != nil {
		return io.ErrUnexpectedEOF
	}
	size, _, _ := strings.Cut(strings.TrimRight(line, "\r\n"), ";")
	if b.left, err = strconv.ParseInt(size, 16, 64); err != nil {
		return fmt.Errorf("chunk size %q: %w", size, err)
	}
	if b.left > 0 {
		return nil
	}
	b.ended = true
	if _, err = io.Copy(io.Discard, b.lines); err != nil {
		return err
	}
	return io.EOF
}

func (b *chunkedBody) Close() error {
	return b.body.Close()
}
