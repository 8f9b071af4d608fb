// The compositions that the tests of Remotion render; ../README.md says what each one shows.
import React from 'react';
import {Composition, registerRoot} from 'remotion';
import {Clip, Film, Tone} from './film.jsx';
import {Loud, Slow} from './failing.jsx';
import {PhonesHome} from './phones-home.jsx';

const film = {width: 320, height: 180, fps: 25, durationInFrames: 20};
const color = '#204060';

const sizedByProps = ({props}) => ({
  width: props.width,
  height: props.height,
  fps: props.fps,
  durationInFrames: props.frames,
});

const Root = () => (
  <>
    <Composition {...film} id="film" component={Film} defaultProps={{color}} />
    <Composition {...film} id="tone" component={Tone} defaultProps={{color, sound: 'tone.wav'}} />
    <Composition {...film} id="clip" component={Clip} defaultProps={{}} />
    <Composition
      id="sized"
      component={Film}
      calculateMetadata={sizedByProps}
      defaultProps={{color, width: 321, height: 181, fps: 25, frames: 5}}
    />
    <Composition {...film} id="slow" component={Slow} defaultProps={{color, at: 3}} />
    <Composition
      {...film}
      id="loud"
      component={Loud}
      defaultProps={{color, at: 3, message: 'the buyer’s own mistake'}}
    />
    <Composition
      {...film}
      id="phones-home"
      component={PhonesHome}
      durationInFrames={2}
      defaultProps={{address: 'http://10.0.0.1/'}}
    />
    {/* Remotion allows Latin letters, digits, hyphens and Chinese, Japanese and Korean letters. */}
    <Composition {...film} id="映画" component={Film} defaultProps={{color}} />
  </>
);

registerRoot(Root);
