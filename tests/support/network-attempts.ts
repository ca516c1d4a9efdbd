import type { Attempt } from './escape-attempts.ts';
import { hostAddresses } from './host-witness.ts';

/**
 * An attempt to reach the witness, the server or anything else but the proxy. `reaches` says that it reaches the witness without a sandbox,
 * or with a proxy that allows everything. That proves that the attempt is effective.
 */
export interface NetworkAttempt extends Attempt {
  readonly reaches: boolean;
  /** Whether it gets an answer although nothing was reached. */
  readonly answered?: boolean;
}

/**
 * The prelude of every attempt: sockets to the proxy, its request forms, and `W`, the port of the witness. All send `P`, which identifies
 * the attempt to the witness. Raises an exception for any answer but 200.
 */
const HELPERS = `
def port_of(name): return ('127.0.0.1', int(os.environ.get(name, 'http://127.0.0.1:1').rsplit(':', 1)[1]))
HTTP, SOCKS, W = port_of('HTTP_PROXY'), port_of('ALL_PROXY'), int(os.environ['WITNESS'])
UDP, SERVER, GOOD = (int(os.environ.get(name, '1')) for name in ('WITNESS_UDP', 'SERVER', 'GOOD'))
LABEL = P.decode()
ABSTRACT = '\\0' + os.environ['WITNESS_ABSTRACT']
def rest(s):
    data = b''
    try:
        while True:
            piece = s.recv(65536)
            if not piece: return data
            data += piece
    except ConnectionResetError: return data
def ok(answer):
    if b' 200' not in answer.split(b'\\r\\n')[0]: raise OSError(answer[:300])
def opened(address): return socket.create_connection(address, 10)
def said(s, text):
    s.sendall(text.encode() if isinstance(text, str) else text)
    return rest(s)
def ended(s, text):
    s.sendall(text.encode()); s.shutdown(socket.SHUT_WR)
    return rest(s)
def direct(host, port=None):
    ok(said(opened((host, port or W)), 'GET /%s HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n' % LABEL))
def datagram(host, family=socket.AF_INET):
    s = socket.socket(family, socket.SOCK_DGRAM); s.connect((host, UDP)); s.send(P); s.settimeout(0.2)
    try: s.recv(1)
    except TimeoutError: pass
def proxied(head): return said(opened(HTTP), head.replace('\\n', '\\r\\n') + '\\r\\nConnection: close\\r\\n\\r\\n')
def get(host, port, path=None): return 'GET %s HTTP/1.1\\nHost: %s:%d' % (path or '/' + LABEL, host, port)
def absolute(host, port, path=None):
    ok(proxied(get(host, port, 'http://%s:%d%s' % (host, port, path or '/' + LABEL))))
def origin(host, port, path=None): ok(proxied(get(host, port, path)))
def through(s, host, port, path=None):
    ok(said(s, get(host, port, path).replace('\\n', '\\r\\n') + '\\r\\nConnection: close\\r\\n\\r\\n'))
def tunnelled(authority):
    s = opened(HTTP); s.sendall(('CONNECT %s HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n' % (authority, authority)).encode())
    head = b''
    while b'\\r\\n\\r\\n' not in head:
        piece = s.recv(1)
        if not piece: break
        head += piece
    ok(head); return s
def tunnel(host, port, path=None): through(tunnelled('%s:%d' % (host, port)), host, port, path)
def socks(command, kind, address, port):
    s = opened(SOCKS); s.sendall(b'\\x05\\x01\\x00')
    if s.recv(2) != b'\\x05\\x00': raise OSError('no method')
    s.sendall(bytes([5, command, 0, kind]) + address + struct.pack('>H', port))
    reply = s.recv(300)
    if reply[:2] != b'\\x05\\x00': raise OSError(reply)
    return s
def named(host, port, path=None):
    name = host.strip('[]').encode(); through(socks(1, 3, bytes([len(name)]) + name, port), host, port, path)
`;

function attempt(name: string, python: string, rest: Partial<NetworkAttempt> = {}): NetworkAttempt {
  return { name, python: `${HELPERS}\n${python}`, reaches: false, ...rest };
}

const text = (value: string) => JSON.stringify(value);
const reaches = { reaches: true };

/** Attempts without a proxy. */
export const DIRECT: readonly NetworkAttempt[] = [
  ...['127.0.0.1', '127.0.0.2', '0.0.0.0', '::1', '::', '::ffff:127.0.0.1', ...hostAddresses()].map((host) =>
    attempt(`a connection to ${host}`, `direct(${text(host)})`, reaches),
  ),
  attempt('a connection by name', "direct('localhost')", reaches),
  attempt(
    'a connection with its first words',
    "s = socket.socket(); s.sendto(P, 0x20000000, ('127.0.0.1', W)); rest(s)",
    reaches,
  ),
  attempt(
    'a connection over several paths',
    "s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262); s.connect(('127.0.0.1', W)); s.sendall(P); rest(s)",
  ),
  attempt(
    'a connection from a fixed address',
    "s = socket.socket(); s.bind(('127.0.0.1', 0)); s.connect(('127.0.0.1', W)); s.sendall(P); rest(s)",
    reaches,
  ),
  attempt(
    'a connection of another program',
    "subprocess.run(['/usr/bin/curl', '-s', '-m', '5', '--noproxy', '*', 'http://127.0.0.1:%d/%s' % (W, LABEL)], check=True); print()",
    reaches,
  ),
  attempt('datagrams to 127.0.0.1', "datagram('127.0.0.1')", reaches),
  attempt('datagrams to ::1', "datagram('::1', socket.AF_INET6)", reaches),
  ...hostAddresses().map((host) =>
    attempt(
      `datagrams to ${host}`,
      `datagram(${text(host)}, socket.${host.includes(':') ? 'AF_INET6' : 'AF_INET'})`,
      reaches,
    ),
  ),
  attempt(
    'broadcast datagrams',
    "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1); s.sendto(P, ('255.255.255.255', UDP))",
  ),
  attempt(
    'datagrams to a group',
    "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(P, ('224.0.0.1', UDP))",
  ),
  attempt('a name server', "print(socket.getaddrinfo('one.one.one.one', 443))"),
  attempt(
    'a question to a name server',
    "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('1.1.1.1', 53)); s.send(bytes.fromhex('00010100000100000000000001610000010001')); s.settimeout(0.5); s.recv(512)",
  ),
  attempt(
    'a question to the name server of this machine',
    "server = [line.split()[1] for line in open('/etc/resolv.conf') if line.startswith('nameserver')] + ['127.0.0.53']\nfor host in server:\n    s = socket.socket(socket.AF_INET6 if ':' in host else socket.AF_INET, socket.SOCK_DGRAM); s.connect((host, 53)); s.send(bytes.fromhex('00010100000100000000000001610000010001')); s.settimeout(0.5); s.recv(512)",
  ),
  attempt(
    'a local connection',
    "s = socket.socket(socket.AF_UNIX); s.connect(os.environ['WITNESS_PATH']); s.sendall(P); rest(s)",
    reaches,
  ),
  attempt(
    'an abstract connection',
    "for name in (ABSTRACT, ABSTRACT.ljust(108, '\\0')):\n    s = socket.socket(socket.AF_UNIX)\n    if s.connect_ex(name) == 0: break\ns.sendall(P); rest(s)",
    reaches,
  ),
  attempt('local datagrams', 'socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)'),
  attempt('a pair of local datagrams', 'socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)'),
  ...[
    ['the kernel by netlink', 'socket.AF_NETLINK, socket.SOCK_RAW, 0'],
    ['packets of the link', 'socket.AF_PACKET, socket.SOCK_RAW, 0'],
    ['raw packets', 'socket.AF_INET, socket.SOCK_RAW, 1'],
    ['raw packets of version 6', 'socket.AF_INET6, socket.SOCK_RAW, 58'],
    ['the host of a virtual machine', 'socket.AF_VSOCK, socket.SOCK_STREAM, 0'],
  ].map(([name, kind]) => attempt(name!, `socket.socket(${kind})`)),
  attempt(
    'a ring of requests',
    "if syscall(425, 8, ctypes.create_string_buffer(248)) >= 0: direct('127.0.0.1')",
  ),
  attempt('a network of its own', "checked(libc.unshare(0x40000000)); direct('127.0.0.1')"),
  attempt('a network of its own as another user', "checked(libc.unshare(0x50000000)); direct('127.0.0.1')"),
  ...['1', '%d' as const].map((pid) =>
    attempt(
      `the network of process ${pid === '1' ? 'one' : 'its parent'}`,
      `syscall(308, os.open('/proc/${pid}/ns/net'${pid === '1' ? '' : ' % os.getppid()'}, os.O_RDONLY), 0); direct('127.0.0.1')`,
    ),
  ),
  attempt(
    'the network of a process of the host',
    "for pid in sorted(int(name) for name in os.listdir('/proc') if name.isdigit()):\n    try: syscall(308, os.open('/proc/%d/ns/net' % pid, os.O_RDONLY), 0x40000000)\n    except OSError: continue\n    direct('127.0.0.1')\nraise OSError('none')",
  ),
  attempt(
    'a socket that it was given',
    "if not any(os.readlink('/proc/self/fd/' + fd).startswith('socket:') for fd in os.listdir('/proc/self/fd') if os.path.lexists('/proc/self/fd/' + fd)): raise OSError('none')",
  ),
  attempt("a sibling's proxy", "direct('127.0.0.1', int(os.environ['SIBLING']))"),
  attempt("the server's own port", "direct('127.0.0.1', SERVER)"),
  attempt(
    'anything but its proxy that listens',
    "lines = open('/proc/net/tcp').read().split('\\n')[1:] + open('/proc/net/tcp6').read().split('\\n')[1:]\nports = {int(line.split()[1].split(':')[1], 16) for line in lines if line and line.split()[3] == '0A'}\nif ports <= {HTTP[1], SOCKS[1]}: raise OSError('none')",
  ),
];

const LOOPBACK = [
  ...['127.0.0.1', '127.1', '127.0.1', '2130706433', '0x7f000001', '0x7f.1', '0177.0.0.1', '017700000001'],
  ...['127.0.0.1.', '127.0.0.2', 'localhost', 'LOCALHOST', 'localhost.', '0', '0.0.0.0'],
  ...['[::1]', '[0:0:0:0:0:0:0:1]', '[::]', '[::ffff:127.0.0.1]', '[::ffff:7f00:1]', '[::FFFF:7F00:0001]'],
];

const FORMS = {
  absolute: 'asked for',
  origin: 'in a Host header',
  tunnel: 'tunnelled to',
  named: 'by SOCKS',
};

/** Every spelling of this machine in every request form, for a port. The path defaults to the attempt's name. */
function spellings(
  title: string,
  port: string,
  path: string,
  more: Partial<NetworkAttempt>,
): NetworkAttempt[] {
  const hosts = [...LOOPBACK, ...hostAddresses().map((host) => (host.includes(':') ? `[${host}]` : host))];
  return hosts.flatMap((host) =>
    Object.entries(FORMS).map(([form, how]) =>
      attempt(`${title} ${how} ${host}`, `${form}(${text(host)}, ${port}, ${path})`, more),
    ),
  );
}

/** Attempts to reach this machine through a proxy that allows every public host. */
export const LOCAL: readonly NetworkAttempt[] = [
  ...spellings('the host', 'W', 'None', reaches),
  attempt(
    'an address of four bytes by SOCKS',
    "through(socks(1, 1, bytes([127, 0, 0, 1]), W), 'x', W)",
    reaches,
  ),
  attempt(
    'an address of sixteen bytes by SOCKS',
    "through(socks(1, 4, bytes(15) + b'\\1', W), 'x', W)",
    reaches,
  ),
  attempt(
    'a mapped address by SOCKS',
    "through(socks(1, 4, bytes(10) + b'\\xff\\xff\\x7f\\0\\0\\1', W), 'x', W)",
    reaches,
  ),
  attempt('datagrams by SOCKS', 'socks(3, 1, bytes(4), 0)'),
  attempt('a listener by SOCKS', 'socks(2, 1, bytes([127, 0, 0, 1]), W)'),
  attempt(
    'a unix socket behind the proxy',
    "ok(proxied('GET / HTTP/1.1\\nHost: a.example\\nX-Unix-Socket: ' + os.environ['WITNESS_PATH']))",
  ),
  attempt('the metadata service', "absolute('169.254.169.254', 80, '/')"),
  attempt('a name without an address', "absolute('nowhere.invalid', W)"),
];

/** Attempts to reach the server and the proxies of other programs through a proxy that allows everything. */
export const OWN: readonly NetworkAttempt[] = [
  ...spellings('the server', 'SERVER', text('/readyz'), {}),
  ...spellings('the proxy of a sibling', "int(os.environ['SIBLING'])", text('http://127.0.0.1:1/'), {}),
  attempt(
    'the proxy of a sibling, with its password',
    "ok(said(tunnelled('127.0.0.1:' + os.environ['SIBLING']), 'GET http://127.0.0.1:%d/ HTTP/1.1\\r\\nProxy-Authorization: %s\\r\\nConnection: close\\r\\n\\r\\n' % (W, os.environ['SIBLING_AUTH'])))",
  ),
];

/** Attempts to bypass a proxy that allows only 127.0.0.1, where an allowed server listens. 127.0.0.2 is the same machine. */
export const TRICKS: readonly NetworkAttempt[] = [
  attempt(
    'a redirect',
    "answer = subprocess.run(['/usr/bin/curl', '-s', '-m', '10', '-L', 'http://127.0.0.1:%d/to?http://127.0.0.2:%d/%s' % (GOOD, W, LABEL)], capture_output=True).stdout\nif b'reached' not in answer: raise OSError(answer)",
  ),
  ...[
    ['another host in the header', 'GET http://127.0.0.1:GOOD/ HTTP/1.1\nHost: 127.0.0.2:WITNESS'],
    ['another port in the header', 'GET http://127.0.0.1:GOOD/ HTTP/1.1\nHost: 127.0.0.1:WITNESS'],
    ['a user that looks like a host', 'GET http://127.0.0.1:GOOD@127.0.0.2:WITNESS/ HTTP/1.1'],
    ['two users', 'GET http://a@127.0.0.1:GOOD@127.0.0.2:WITNESS/ HTTP/1.1\nHost: 127.0.0.2'],
    ['a backslash', 'GET http://127.0.0.1:GOOD\\@127.0.0.2:WITNESS/ HTTP/1.1'],
    ['a fragment before the host', 'GET http://127.0.0.1:GOOD#@127.0.0.2:WITNESS/ HTTP/1.1\nHost: 127.0.0.2'],
    ['a target without a scheme', 'GET //127.0.0.2:WITNESS/ HTTP/1.1\nHost: 127.0.0.2'],
    ['two headers', 'GET / HTTP/1.1\nHost: 127.0.0.1:GOOD\nHost: 127.0.0.2:WITNESS'],
    ['a folded header', 'GET / HTTP/1.1\nHost: 127.0.0.1:GOOD\n 127.0.0.2:WITNESS'],
    ['a space before a colon', 'GET / HTTP/1.1\nX: 127.0.0.1:GOOD\nHost : 127.0.0.2:WITNESS'],
    ['a list of hosts', 'GET / HTTP/1.1\nHost: 127.0.0.1:GOOD,127.0.0.2:WITNESS'],
    ['a host with a tab', 'GET / HTTP/1.1\nHost: 127.0.0.1:GOOD\t127.0.0.2:WITNESS'],
    ['a percent in the host', 'GET http://127.0.0.%32:WITNESS/ HTTP/1.1\nHost: 127.0.0.2'],
    ['a zone of an address', 'GET http://[::1%25lo]:WITNESS/ HTTP/1.1'],
    ['another scheme', 'GET ftp://127.0.0.2:WITNESS/ HTTP/1.1\nHost: 127.0.0.2'],
    ['a secure scheme', 'GET https://127.0.0.2:WITNESS/ HTTP/1.1\nHost: 127.0.0.2'],
    ['a tunnel with a user', 'CONNECT 127.0.0.1:GOOD@127.0.0.2:WITNESS HTTP/1.1'],
    ['a tunnel with a scheme', 'CONNECT http://127.0.0.2:WITNESS HTTP/1.1'],
    ['a tunnel with a path', 'CONNECT 127.0.0.2:WITNESS/x HTTP/1.1'],
    ['a tunnel with another header', 'CONNECT 127.0.0.2:WITNESS HTTP/1.1\nHost: 127.0.0.1'],
    ['a tunnel to a space', 'CONNECT 127.0.0.2:WITNESS 127.0.0.1 HTTP/1.1'],
    ['HTTP/2', 'PRI * HTTP/2.0\nHost: 127.0.0.2:WITNESS'],
  ].map(([name, head]) =>
    attempt(name!, `ok(proxied(${text(head!)}.replace('GOOD', str(GOOD)).replace('WITNESS', str(W))))`),
  ),
  ...[
    ['a second request behind the first', 'Content-Length: 0'],
    ['a second request in a body that ends early', 'Content-Length: 0\\r\\nTransfer-Encoding: chunked'],
    ['a second request behind two lengths', 'Content-Length: 0\\r\\nContent-Length: 200'],
    ['a second request behind an unknown coding', 'Transfer-Encoding: xchunked'],
    ['a second request behind an upgrade', 'Connection: Upgrade\\r\\nUpgrade: h2c'],
  ].map(([name, header]) =>
    attempt(
      name!,
      `ended(opened(HTTP), 'POST http://127.0.0.1:%d/first HTTP/1.1\\r\\nHost: 127.0.0.1:%d\\r\\n${header}\\r\\n\\r\\n0\\r\\n\\r\\nGET http://127.0.0.2:%d/%s HTTP/1.1\\r\\nHost: 127.0.0.2:%d\\r\\nConnection: close\\r\\n\\r\\n' % (GOOD, GOOD, W, LABEL, W))`,
      { answered: true },
    ),
  ),
  attempt(
    'a request to another host on the same connection',
    "s = opened(HTTP); s.sendall(b'GET http://127.0.0.1:%d/first HTTP/1.1\\r\\nHost: 127.0.0.1:%d\\r\\n\\r\\n' % (GOOD, GOOD)); ok(s.recv(65536)); ok(said(s, b'GET http://127.0.0.2:%d/%s HTTP/1.1\\r\\nHost: 127.0.0.2:%d\\r\\nConnection: close\\r\\n\\r\\n' % (W, P, W)))",
  ),
  attempt(
    'a request to another host in a tunnel',
    "said(tunnelled('127.0.0.1:%d' % GOOD), 'GET http://127.0.0.2:%d/%s HTTP/1.1\\r\\nHost: 127.0.0.2:%d\\r\\nConnection: close\\r\\n\\r\\n' % (W, LABEL, W))",
    { answered: true },
  ),
  attempt(
    'a second tunnel in a tunnel',
    "said(tunnelled('127.0.0.1:%d' % GOOD), 'CONNECT 127.0.0.2:%d HTTP/1.1\\r\\nConnection: close\\r\\n\\r\\n' % W)",
    { answered: true },
  ),
  attempt('another address by SOCKS', "through(socks(1, 1, bytes([127, 0, 0, 2]), W), 'x', W)"),
  attempt('another name by SOCKS', "named('localhost', W)"),
  attempt('a name with a zero by SOCKS', "through(socks(1, 3, b'\\x13127.0.0.1\\x00127.0.0.2', W), 'x', W)"),
  attempt(
    'two requests by SOCKS',
    "s = opened(SOCKS); s.sendall(b'\\5\\1\\0' + b'\\5\\1\\0\\1\\x7f\\0\\0\\2' + struct.pack('>H', W) + b'\\5\\1\\0\\1\\x7f\\0\\0\\1' + struct.pack('>H', GOOD) + P); print(rest(s))",
    { answered: true },
  ),
];
