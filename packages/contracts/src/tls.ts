import { accessSync, constants } from 'node:fs';
import { type ChannelCredentials, credentials, experimental, ServerCredentials } from '@grpc/grpc-js';

/** An app's certificate, its key, and the authorities whose certificates it believes: files in PEM. */
export interface TlsFiles {
  readonly certificateFile: string;
  readonly privateKeyFile: string;
  readonly caFile: string;
}

/** How soon a renewed certificate is taken up, without a restart. */
const RELOAD_MS = 5_000;

/** For the side that serves: whoever connects must show a certificate too. Without files, plain text. */
export function serverCredentials(files: TlsFiles | undefined): ServerCredentials {
  if (!files) return ServerCredentials.createInsecure();
  const provider = watchedFiles(files);
  return experimental.createCertificateProviderServerCredentials(provider, provider, true);
}

/** For the side that connects. */
export function channelCredentials(files: TlsFiles | undefined): ChannelCredentials {
  if (!files) return credentials.createInsecure();
  const provider = watchedFiles(files);
  return experimental.createCertificateProviderChannelCredentials(provider, provider);
}

function watchedFiles({ certificateFile, privateKeyFile, caFile }: TlsFiles) {
  for (const file of [certificateFile, privateKeyFile, caFile]) {
    try {
      // The watcher would wait for it in silence.
      accessSync(file, constants.R_OK);
    } catch (error) {
      throw new Error(`Can't read ${file} for TLS between the apps`, { cause: error });
    }
  }
  return new experimental.FileWatcherCertificateProvider({
    certificateFile,
    privateKeyFile,
    caCertificateFile: caFile,
    refreshIntervalMs: RELOAD_MS,
  });
}
