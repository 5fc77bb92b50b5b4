import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { checkServerIdentity, connect } from 'node:tls';
import { type CertificateFiles, validity } from './certificateChecks.ts';
import { type Finding, fail, ok, why } from './finding.ts';

export interface ControlPlaneTarget {
  readonly address: string;
  readonly tls: CertificateFiles | undefined;
  /** Calls the control plane as a data plane would; rejects with the reason of a failure. */
  readonly ping: () => Promise<void>;
}

const TIMEOUT_MS = 5_000;

/** Checks that a data plane with these settings reaches its control plane, and that each trusts the other. */
export async function controlPlaneChecks(
  { address, tls, ping }: ControlPlaneTarget,
  now: () => Date,
): Promise<Finding[]> {
  const findings: Finding[] = [];
  let tlsError: unknown;
  if (tls) {
    const checks = servedCertificateChecks(address, tls, now).catch((error: unknown) => {
      tlsError = error;
      return [];
    });
    findings.push(...(await checks));
  }
  try {
    await ping();
    findings.push(ok('control plane', `${address} accepts these settings`));
  } catch (error) {
    // The TLS error is specific, such as a weak certificate; gRPC's is not.
    const reason = why(tlsError ?? error);
    findings.push(fail('control plane', `${address}: ${reason}`, adviceOn(error, tls !== undefined)));
  }
  return findings;
}

function adviceOn(error: unknown, hasTls: boolean): string {
  const { code } = error as { readonly code?: unknown };
  // gRPC's UNAUTHENTICATED and PERMISSION_DENIED.
  if (code === 16 || code === 7) return 'Set CONTROL_PLANE_TOKEN to the same value as the control plane has.';
  const tls = hasTls
    ? 'that it serves TLS and trusts the issuer of CONTROL_TLS_CERTIFICATE_FILE'
    : 'that it serves plain text (CONTROL_TLS_* is not set here)';
  return `Check that CONTROL_PLANE_ADDRESS is the host and the gRPC port (8082 by default, not 8081), that the control plane runs, ${tls}, and that no network policy blocks it.`;
}

/** Checks the certificate that the control plane serves, trusted or not. Rejects if it serves none. */
async function servedCertificateChecks(
  address: string,
  { certificateFile, privateKeyFile, caFile }: CertificateFiles,
  now: () => Date,
): Promise<Finding[]> {
  const { hostname: bracketed, port } = new URL(`grpc://${address}`);
  const host = bracketed.replace(/^\[|\]$/g, '');
  const [cert, key, ca] = await Promise.all(
    [certificateFile, privateKeyFile, caFile].map((file) => readFile(file)),
  );
  const { served, refusal } = await new Promise<{ served: X509Certificate; refusal: string | undefined }>(
    (resolve, reject) => {
      const socket = connect({
        host,
        port: Number(port),
        cert,
        key,
        ca,
        ALPNProtocols: ['h2'],
        ...(isIP(host) ? {} : { servername: host }),
        // Checked below: a certificate that is not trusted is a finding.
        rejectUnauthorized: false,
        checkServerIdentity: () => undefined,
        timeout: TIMEOUT_MS,
      });
      socket.once('secureConnect', () => {
        const raw = socket.getPeerCertificate().raw;
        socket.destroy();
        if (!raw) return reject(new Error('it serves no certificate'));
        const { authorizationError } = socket;
        resolve({
          served: new X509Certificate(raw),
          refusal: authorizationError && String(authorizationError),
        });
      });
      socket.once('timeout', () => socket.destroy(new Error(`no response within ${TIMEOUT_MS} ms`)));
      socket.once('error', reject);
    },
  );
  const check = "control plane's certificate";
  const findings = [validity(check, served, now())];
  if (refusal) {
    findings.push(
      fail(
        check,
        `it is not trusted by CONTROL_TLS_CA_FILE (${refusal})`,
        'Add the authority that issued it to CONTROL_TLS_CA_FILE, or give the control plane a certificate of an authority in that file.',
      ),
    );
  }
  const wrongName = checkServerIdentity(host, served.toLegacyObject());
  if (wrongName) {
    findings.push(
      fail(
        check,
        `it is not for ${host} (${served.subjectAltName ?? 'it names no host'})`,
        'Set CONTROL_PLANE_ADDRESS to a name in the certificate, or issue the certificate for this name.',
      ),
    );
  }
  return findings;
}
