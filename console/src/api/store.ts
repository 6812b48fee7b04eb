// Images, volumes and what they lie on.
import { address, call, segment } from './client';
import { stream } from './stream';
import type { Image, Storage, Volume } from './types';

export const listImages = async () =>
  (await call<{ images: Image[] }>('GET', '/api/v1/images')).images;
export const removeImage = (reference: string) =>
  call<void>('DELETE', '/api/v1/images', { query: { reference } });
export const exportAddress = (reference: string) => address('/api/v1/images/export', { reference });
export const importImage = (reference: string, file: File) =>
  call<Image>('POST', '/api/v1/images/import', {
    query: { reference },
    raw: file,
    headers: { 'Content-Type': 'application/x-tar' },
  });
export const collectGarbage = () =>
  call<{ blobs: number; layers: number; bytes: number }>('POST', '/api/v1/images/gc', { body: {} });

export interface PullWish {
  reference: string;
  username?: string;
  password?: string;
  refresh?: boolean;
}
export interface PullProgress {
  stage: string;
  layer?: string;
  done?: number;
  total?: number;
}

// Resolves when the image is here. Hanging up gives the pull up.
export async function pullImage(
  wish: PullWish,
  onProgress: (progress: PullProgress) => void,
  signal?: AbortSignal,
): Promise<void> {
  let failed = '';
  let arrived = false;
  await stream('POST', '/api/v1/images/pull', { body: wish, signal }, (event) => {
    const data = JSON.parse(event.data);
    if (event.event === 'progress') onProgress(data);
    if (event.event === 'image') arrived = true;
    if (event.event === 'error')
      failed = String(data?.error?.message ?? data?.message ?? 'the pull failed');
  });
  if (failed !== '') throw new Error(failed);
  if (!arrived) throw new Error('the pull ended without an image');
}

export const listVolumes = async () =>
  (await call<{ volumes: Volume[] }>('GET', '/api/v1/volumes')).volumes;
export const putVolume = (name: string, bytes: number) =>
  call<Volume>('PUT', `/api/v1/volumes/${segment(name)}`, { body: { bytes } });
export const removeVolume = (name: string) =>
  call<void>('DELETE', `/api/v1/volumes/${segment(name)}`);
export const getStorage = () => call<Storage>('GET', '/api/v1/storage');
