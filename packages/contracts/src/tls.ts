import { accessSync, constants } from 'node:fs';
import { type ChannelCredentials, credentials, experimental, ServerCredentials } from '@grpc/grpc-js';

/** An app's certificate, its private key, and the certificate authorities that it trusts: PEM files. */
export interface TlsFiles {
  readonly certificateFile: string;
  readonly privateKeyFile: string;
  readonly caFile: string;
}

/** A renewed certificate is loaded within this time, without a restart. */
const RELOAD_MS = 5_000;

/** For a server, with mutual TLS. Without files, plain text. */
export function serverCredentials(files: TlsFiles | undefined): ServerCredentials {
  if (!files) return ServerCredentials.createInsecure();
  const provider = watchedFiles(files);
  return experimental.createCertificateProviderServerCredentials(provider, provider, true);
}

/** For a client. Without files, plain text. */
export function channelCredentials(files: TlsFiles | undefined): ChannelCredentials {
  if (!files) return credentials.createInsecure();
  const provider = watchedFiles(files);
  return experimental.createCertificateProviderChannelCredentials(provider, provider);
}

function watchedFiles({ certificateFile, privateKeyFile, caFile }: TlsFiles) {
  for (const file of [certificateFile, privateKeyFile, caFile]) {
    try {
      // The watcher would wait for a missing file without an error.
      accessSync(file, constants.R_OK);
    } catch (error) {
      throw new Error(`Can't read ${file} for TLS between the apps. Check CONTROL_TLS_*_FILE`, {
        cause: error,
      });
    }
  }
  return new experimental.FileWatcherCertificateProvider({
    certificateFile,
    privateKeyFile,
    caCertificateFile: caFile,
    refreshIntervalMs: RELOAD_MS,
  });
}
