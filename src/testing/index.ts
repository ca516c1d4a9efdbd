export { type ProcessEvent, ProcessEvents } from './process-events.ts';
export { TcpProxy } from './tcp-proxy.ts';
export { type Incoming, TestClient } from './test-client.ts';
export {
  connectInMemory,
  type MemoryConnection,
  type ServerProcess,
  startServer,
  startServerProcess,
  type TestServer,
} from './test-server.ts';
