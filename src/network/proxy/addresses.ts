import { BlockList, isIPv4 } from 'node:net';
import { networkInterfaces } from 'node:os';

/** Whether an address belongs to the public internet, and not to this machine, a private network or a reserved range. */
export function isPublicAddress(address: string): boolean {
  const embedded = isIPv4(address) ? address : embeddedIpv4(address);
  if (embedded !== null) return !NOT_PUBLIC_V4.check(embedded, 'ipv4');
  return GLOBAL_V6.check(address, 'ipv6') && !NOT_PUBLIC_V6.check(address, 'ipv6');
}

/** Whether connecting to the address reaches this machine. */
export function isOwnAddress(address: string): boolean {
  const plain = isIPv4(address) ? address : (embeddedIpv4(address) ?? address);
  if (isIPv4(plain) ? OWN_V4.check(plain, 'ipv4') : plain === '::' || plain === '::1') return true;
  return Object.values(networkInterfaces()).some((entries) =>
    entries?.some((entry) => entry.address === plain),
  );
}

/** Whether packets to the address never leave this machine, independent of its interfaces. */
export function isLoopbackAddress(address: string): boolean {
  const plain = unmappedAddress(address);
  return isIPv4(plain) ? LOOPBACK_V4.check(plain, 'ipv4') : plain === '::1';
}

/**
 * Whether the address is link-local, or that of a cloud's metadata service, which gives credentials to every program that can reach
 * it. Most clouds use 169.254.169.254.
 */
export function isMetadataAddress(address: string): boolean {
  const plain = isIPv4(address) ? address : (embeddedIpv4(address) ?? address);
  return isIPv4(plain) ? METADATA_V4.check(plain, 'ipv4') : METADATA_V6.check(plain, 'ipv6');
}

/** The IPv4 address of an IPv4-mapped one (::ffff:0:0/96); any other address unchanged. */
export function unmappedAddress(address: string): string {
  return address.startsWith('::ffff:') ? (embeddedIpv4(address) ?? address) : address;
}

/** The IPv4 address inside a mapped (::ffff:0:0/96) or NAT64 (64:ff9b::/96) address, which is where packets go. */
function embeddedIpv4(address: string): string | null {
  const [, high, low] = EMBEDDED.exec(address) ?? [];
  if (high === undefined || low === undefined) return dottedTail(address);
  const [a, b] = [Number.parseInt(high, 16), Number.parseInt(low, 16)];
  return `${a >> 8}.${a & 255}.${b >> 8}.${b & 255}`;
}

function dottedTail(address: string): string | null {
  return /^(?:::ffff:|64:ff9b::)(\d+\.\d+\.\d+\.\d+)$/.exec(address)?.[1] ?? null;
}

const EMBEDDED = /^(?:::ffff:|64:ff9b::)([0-9a-f]{1,4}):([0-9a-f]{1,4})$/;

const LOOPBACK_V4 = subnets('ipv4', ['127.0.0.0/8']);

/** Link-local addresses, and Alibaba Cloud's service. */
const METADATA_V4 = subnets('ipv4', ['169.254.0.0/16', '100.100.100.200/32']);

/** Link-local addresses, and that of AWS. */
const METADATA_V6 = subnets('ipv6', ['fe80::/10', 'fd00:ec2::254/128']);

const OWN_V4 = subnets('ipv4', ['127.0.0.0/8', '0.0.0.0/8']);

const NOT_PUBLIC_V4 = subnets('ipv4', [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
]);

const GLOBAL_V6 = subnets('ipv6', ['2000::/3']);

/** Excluded from the global range: protocol assignments with Teredo, documentation, and 6to4, which embeds any IPv4 address. */
const NOT_PUBLIC_V6 = subnets('ipv6', ['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20']);

function subnets(family: 'ipv4' | 'ipv6', list: readonly string[]): BlockList {
  const blocks = new BlockList();
  for (const subnet of list) {
    const [network = '', prefix] = subnet.split('/');
    blocks.addSubnet(network, Number(prefix), family);
  }
  return blocks;
}
