/**
 * Lua scripts, which Redis runs atomically. An epoch is the time in milliseconds, or the previous epoch plus one if that is higher.
 * After a loss of all data, epochs therefore still increase.
 */
const NEXT_EPOCH = `
local function nextEpoch(before)
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  return string.format('%.0f', math.max(now, (tonumber(before) or 0) + 1))
end
`;

/**
 * KEYS: environment, superseded keys, lease. ARGV: key hash, key, new registration id, superseded keys to keep, lifetime.
 * Returns the outcome and the registration id.
 */
export const REGISTER = `${NEXT_EPOCH}
local held = redis.call('HMGET', KEYS[1], 'keyHash', 'registrationId', 'epoch')
if held[1] == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[5])
  return {'returned', held[2]}
end
if redis.call('LPOS', KEYS[2], ARGV[1]) then return {'superseded', ''} end
local outcome = 'new'
if held[1] then
  outcome = 'replaced'
  redis.call('LPUSH', KEYS[2], held[1])
  redis.call('LTRIM', KEYS[2], 0, ARGV[4] - 1)
  redis.call('PEXPIRE', KEYS[2], ARGV[5])
end
redis.call('HSET', KEYS[1], 'keyHash', ARGV[1], 'key', ARGV[2], 'registrationId', ARGV[3], 'epoch', nextEpoch(held[3]))
redis.call('PEXPIRE', KEYS[1], ARGV[5])
redis.call('DEL', KEYS[3])
return {outcome, ARGV[3]}
`;

/**
 * KEYS: environment, lease. ARGV: registration id, node, duration of the lease, lifetime. Returns epoch, key hash and key, or nothing
 * when the registration is not current.
 */
export const CLAIM = `${NEXT_EPOCH}
local held = redis.call('HMGET', KEYS[1], 'registrationId', 'epoch', 'keyHash', 'key')
if held[1] ~= ARGV[1] then return {} end
local epoch = nextEpoch(held[2])
redis.call('HSET', KEYS[1], 'epoch', epoch)
redis.call('PEXPIRE', KEYS[1], ARGV[4])
redis.call('HSET', KEYS[2], 'node', ARGV[2], 'epoch', epoch)
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return {epoch, held[3], held[4]}
`;

/**
 * KEYS: environment, lease. ARGV: epoch, node, duration of the lease, lifetime, registration id, key hash, key. Returns 1 when the
 * lease is renewed and 0 when a newer claim has ended it. A store with an older epoch has lost data, which the script restores.
 */
export const RENEW = `
local epoch = tonumber(redis.call('HGET', KEYS[1], 'epoch') or '0')
local mine = tonumber(ARGV[1])
if epoch > mine then return 0 end
if epoch < mine then
  redis.call('HSET', KEYS[1], 'epoch', ARGV[1], 'registrationId', ARGV[5], 'keyHash', ARGV[6], 'key', ARGV[7])
end
redis.call('PEXPIRE', KEYS[1], ARGV[4])
redis.call('HSET', KEYS[2], 'node', ARGV[2], 'epoch', ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return 1
`;

/** KEYS: lease. ARGV: epoch. */
export const RELEASE = `
if redis.call('HGET', KEYS[1], 'epoch') == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 0
`;

/** KEYS: environment, lease. Returns registration id, key hash, key and node; unknown values are empty. */
export const FIND = `
local held = redis.call('HMGET', KEYS[1], 'registrationId', 'keyHash', 'key')
local node = redis.call('HGET', KEYS[2], 'node')
return {held[1] or '', held[2] or '', held[3] or '', node or ''}
`;
