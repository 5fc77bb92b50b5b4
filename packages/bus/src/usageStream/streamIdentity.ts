import type { StreamInfo } from '@nats-io/jetstream';

interface KnownStream {
  readonly id: string;
  /** The highest sequence that this process has published. */
  highestSequence: number;
}

/** Which stream messages are published to: looked up once, and again after anything that may have replaced it. */
export interface StreamIdentity {
  readonly known: KnownStream | undefined;
  lookUp(): Promise<KnownStream>;
  /** Always asks the server. */
  refresh(): Promise<StreamInfo>;
  /** The stream may have been replaced. With an argument, only if this one is still the known one. */
  forget(stream?: KnownStream): void;
}

export function createStreamIdentity(fetchInfo: () => Promise<StreamInfo>): StreamIdentity {
  let known: KnownStream | undefined;
  let pending: Promise<KnownStream> | undefined;

  const refresh = async (): Promise<StreamInfo> => {
    const info = await fetchInfo();
    if (known?.id !== info.created) known = { id: info.created, highestSequence: 0 };
    return info;
  };
  const lookUp = async (): Promise<KnownStream> => {
    const { created } = await refresh();
    return known ?? { id: created, highestSequence: 0 };
  };
  return {
    get known() {
      return known;
    },
    lookUp() {
      pending ??= lookUp().finally(() => {
        pending = undefined;
      });
      return pending;
    },
    refresh,
    forget(stream) {
      if (stream === undefined || stream === known) known = undefined;
    },
  };
}
