package redisstore

import "strings"

// slots is how many hash slots a Redis Cluster has.
const slots = 16384

// slot returns a key's hash slot, as the Redis Cluster specification defines
// it: CRC16 (XMODEM) of the hash tag, or of the whole key if it has none.
func slot(key string) uint16 {
	var crc uint16
	for _, c := range []byte(hashTag(key)) {
		crc ^= uint16(c) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc % slots
}

// hashTag returns what stands between the first { and the first } after it,
// unless that is nothing; then the whole key.
func hashTag(key string) string {
	if _, after, found := strings.Cut(key, "{"); found {
		if tag, _, found := strings.Cut(after, "}"); found && tag != "" {
			return tag
		}
	}
	return key
}
