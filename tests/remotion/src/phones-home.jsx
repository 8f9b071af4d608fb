// Tries to reach an address from the browser: green if nothing answered, red if anything did.
import React, {useEffect, useState} from 'react';
import {AbsoluteFill, cancelRender, continueRender, delayRender} from 'remotion';

// Shorter than Remotion waits for a frame; addresses that swallow packets count as not reached.
const PATIENCE_MS = 4000;

const within = (patience, attempt) =>
  Promise.race([attempt, new Promise((resolve) => setTimeout(resolve, patience, false))]);

// Without CORS the answer stays hidden, but its arrival does not.
const byFetch = (address) =>
  fetch(address, {mode: 'no-cors', cache: 'no-store'}).then(
    () => true,
    () => false,
  );

// Needs an answer that is a picture; the server sees the request in any case.
const byImage = (address) =>
  new Promise((resolve) => {
    const image = new Image();
    image.onload = () => resolve(true);
    image.onerror = () => resolve(false);
    image.src = `${address}?image`;
  });

// Needs a server that shakes hands; any server sees the request.
const bySocket = (address) =>
  new Promise((resolve) => {
    const socket = new WebSocket(`${address.replace(/^http/, 'ws')}?socket`);
    socket.onopen = () => resolve(true);
    socket.onerror = () => resolve(false);
  });

const anythingReached = async (address) => {
  const attempts = [byFetch, byImage, bySocket].map((way) => within(PATIENCE_MS, way(address)));
  return (await Promise.all(attempts)).some(Boolean);
};

export const PhonesHome = ({address}) => {
  const [handle] = useState(() => delayRender(`phoning ${address}`));
  const [reached, setReached] = useState(null);
  useEffect(() => {
    anythingReached(address).then(setReached, cancelRender);
  }, [address]);
  useEffect(() => {
    if (reached !== null) {
      continueRender(handle);
    }
  }, [reached, handle]);
  const color = {null: 'black', false: '#00ff00', true: '#ff0000'}[reached];
  return <AbsoluteFill style={{background: color}} />;
};
