import { type JetStreamManager, jetstreamManager } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';

/** Changes JetStream as an operator can with the `nats` command line. */
export async function withManager<T>(
  url: string,
  act: (manager: JetStreamManager) => Promise<T>,
): Promise<T> {
  const connection = await connect({ servers: url });
  try {
    return await act(await jetstreamManager(connection));
  } finally {
    await connection.close();
  }
}
